"""`gridwright schema`: the JSON Schema of grid.yaml."""

import typer


def schema() -> None:
    """Print the JSON Schema of grid.yaml, for editors and other tools.

    Example: gridwright schema > grid.schema.json
    """
    import json

    from gridwright.spec import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))
