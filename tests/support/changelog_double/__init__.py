"""A double of liblustreapi for readers of changelogs, strict about handles and about what is given up."""
