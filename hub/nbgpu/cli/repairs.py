"""`nbgpu reconcile` and `nbgpu audit`: mend what disagrees now; read what was done before."""

from dataclasses import asdict
from typing import Annotated

import typer

from nbgpu.cli.lists import open_site, show_time, show_user_text
from nbgpu.cli.output import JsonOption, print_json, print_table
from nbgpu.cli.setup import DEFAULT_DATA, ConfigOption, DataOption


def reconcile(*, data: DataOption = DEFAULT_DATA, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Compare leases, containers and the hub, and mend what disagrees. The hub does so each minute by itself."""
    reconciler = open_site(data, config).reconciler
    mended = [done for found in reconciler.compare() if (done := reconciler.mend(found.session_id)) is not None]
    if as_json:
        print_json([asdict(finding) for finding in mended])
        return
    print_table(
        ["Session", "Repair", "Why"],
        [[finding.session_id, finding.repair, show_user_text(finding.reason)] for finding in mended],
        empty="Leases, containers and the hub agree: nothing to mend.",
    )


def audit(
    *,
    count: Annotated[int, typer.Option(help="How many rows, the newest first.", min=1, max=10_000)] = 50,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List what was done to the site: by whom, to what, why."""
    rows = open_site(data, config).audit.latest(count)
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    print_table(
        ["When", "Who", "What", "To what", "Why"],
        [
            [show_time(row.recorded_at), *map(show_user_text, (row.actor, row.action, row.subject, row.detail))]
            for row in rows
        ],
        empty="Nothing was recorded yet.",
    )
