"""Lines of the ledger for tests."""

from nbgpu.core.ledger import Charge


def charge(start: int, seconds: int, **fields: object) -> Charge:
    """Return a line of usage that begins at `start`."""
    defaults = {
        "charge_key": "k",
        "session_id": "s",
        "username": "ann",
        "billing_group": "",
        "flavor": "a100",
        "sku_id": "a100:gpu:on-demand",
        "resource_id": "GPU-1",
        "charge_category": "Usage",
        "charge_period_start": start,
        "charge_period_end": start + seconds,
        "consumed_seconds": seconds,
        "consumed_unit": "GPU-Hours",
        "list_unit_price": 1_000_000,
        "billed_cost": 277 * seconds,
        "billing_currency": "USD",
    }
    return Charge(**defaults | fields)
