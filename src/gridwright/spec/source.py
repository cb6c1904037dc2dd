"""The text of a grid spec as the user sees it, from room yamltext."""

from gridwright.yamltext.source import SourceText, sentence, show

__all__ = ["SourceText", "sentence", "show"]
