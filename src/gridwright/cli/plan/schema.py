"""`gridwright schema`: the JSON Schema of grid.yaml."""


def schema() -> None:
    """Print the JSON Schema of grid.yaml, for editors and other tools.

    Example: gridwright schema > grid.schema.json
    """
    import json

    from gridwright.cli.output import Output
    from gridwright.spec import json_schema

    # A document of its own kind, without the keys of results.
    Output("schema").write(json.dumps(json_schema(), indent=2))
