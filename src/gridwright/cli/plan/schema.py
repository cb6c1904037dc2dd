"""`gridwright schema`: the JSON Schema of grid.yaml."""


def schema() -> None:
    """Print the JSON Schema of grid.yaml, for editors and other tools.

    Example: gridwright schema > grid.schema.json
    """
    import json

    import typer

    from gridwright.cli.output import Output
    from gridwright.spec import FILESYSTEMS, PROVIDERS, SCHEDULERS, json_schema

    for problem in [*FILESYSTEMS.broken(), *PROVIDERS.broken(), *SCHEDULERS.broken()]:
        typer.echo(f"warning: {problem}", err=True)
    # A document of its own kind, without the keys of results.
    Output("schema").write(json.dumps(json_schema(), indent=2))
