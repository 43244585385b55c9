"""Run the benchmarks: python -m bench [--only NAME] [--json FILE]."""

import argparse
import json
import sys
from pathlib import Path

from bench import api, boot, charges, culling, hub_load, idle, panel, pool, sampler, starts, statements, usage_page
from bench.figures import Benchmark, Figure

BENCHMARKS: dict[str, Benchmark] = {
    "spawn": starts.measure_one_start,
    "spawn.burst": starts.measure_bursts,
    "image": boot.measure_boot,
    "hub": hub_load.measure_hub,
    "ledger.rows": charges.measure_posting,
    "ledger.statement": statements.measure_statements,
    "sampler": sampler.measure_sampler,
    "panel": panel.measure_panel,
    "pages.pool": pool.measure_pool,
    "pages.users": usage_page.measure_usage_page,
    "api.sessions": api.measure_api,
    "cull": culling.measure_culling,
    "idle": idle.measure_idle,
}


def main() -> int:
    """Print a line a figure as they come."""
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--only", default="", help="figures, or groups of them, whose name begins so")
    parser.add_argument("--json", type=Path, help="write the figures there, too")
    asked = parser.parse_args()
    chosen = {name: run for name, run in BENCHMARKS.items() if wanted(name, asked.only)}
    if not chosen:
        sys.exit(f"No benchmark {asked.only}; there are: {', '.join(BENCHMARKS)}")
    figures: list[Figure] = []
    for run in chosen.values():
        for figure in run():
            if figure.name.startswith(asked.only):
                print(figure, flush=True)
                figures.append(figure)
    if asked.json:
        asked.json.write_text(json.dumps([figure.to_json() for figure in figures], indent=2) + "\n")
    return 0


def wanted(group: str, only: str) -> bool:
    """Whether a group of figures has one that was asked for."""
    return only.startswith(group) or group.startswith(only)


if __name__ == "__main__":
    sys.exit(main())
