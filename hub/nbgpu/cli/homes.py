"""`nbgpu homes`: whose files lie where, those of people who are gone as well."""

from dataclasses import asdict

from nbgpu.cli.lists import open_site, show_time, show_user_text
from nbgpu.cli.output import JsonOption, print_json, print_table
from nbgpu.cli.setup import DEFAULT_DATA, ConfigOption, DataOption


def homes(*, data: DataOption = DEFAULT_DATA, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List home volumes: in use, and archived when their user was deleted."""
    found = open_site(data, config).homes.all()
    if as_json:
        print_json([asdict(home) for home in found])
        return
    print_table(
        ["User", "Volume", "Since", "State"],
        [
            [
                show_user_text(home.username),
                home.volume,
                show_time(home.created_at),
                f"archived {show_time(home.archived_at)}" if home.archived_at else "in use",
            ]
            for home in found
        ],
        empty="Nobody has a home yet: it is made at a user's first start.",
    )
