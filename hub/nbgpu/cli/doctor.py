"""`nbgpu doctor`: what the site stands on, and what to do where it does not stand well."""

from dataclasses import asdict

import typer

from nbgpu.cli.lists import open_site
from nbgpu.cli.output import JsonOption, print_json, print_table
from nbgpu.cli.setup import DEFAULT_DATA, ConfigOption, DataOption


def doctor(*, data: DataOption = DEFAULT_DATA, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Check driver, Docker, network, images, clock, disk, database and secrets. Exit code 1 where something fails."""
    from nbgpu.machine.doctor import examine

    report = examine(open_site(data, config))
    if as_json:
        print_json([asdict(finding) for finding in report.findings])
    else:
        print_table(
            ["", "Check", "Found", "What to do"],
            [[finding.level, finding.subject, finding.found, finding.advice] for finding in report.findings],
            empty="",
        )
    if not report.healthy:
        raise typer.Exit(1)
