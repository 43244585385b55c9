"""The ledger's lines in the columns of FOCUS 1.0, the FinOps Open Cost and Usage Specification. Pure.

A line is a row; what the specification has no column for is in Tags and in columns that begin with x_, as it wants.
There are no discounts here, so the list, contracted, effective and billed cost of a line are one.
"""

import json
from collections.abc import Mapping
from decimal import Decimal

from nbgpu.core.cells import Cell
from nbgpu.core.ledger import Charge, ChargeCategory
from nbgpu.core.periods import HOUR, to_instant
from nbgpu.core.prices import Tariff
from nbgpu.core.units import MICRO

ISSUER = "nbgpu"
_PRICING = {Tariff.ON_DEMAND.value: "Standard", Tariff.RESERVED.value: "Committed", Tariff.SPOT.value: "Dynamic"}
_QUANTUM = Decimal("1E-9")  # hours: seconds come out exactly enough to be counted back

# The order of the specification's own list.
COLUMNS = (
    "AvailabilityZone",
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "CommitmentDiscountCategory",
    "CommitmentDiscountId",
    "CommitmentDiscountName",
    "CommitmentDiscountStatus",
    "CommitmentDiscountType",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedCost",
    "ContractedUnitPrice",
    "EffectiveCost",
    "InvoiceIssuerName",
    "ListCost",
    "ListUnitPrice",
    "PricingCategory",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "RegionId",
    "RegionName",
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "ServiceCategory",
    "ServiceName",
    "SkuId",
    "SkuPriceId",
    "SubAccountId",
    "SubAccountName",
    "Tags",
    "x_ChargeId",
    "x_Posted",
    "x_Estimated",
)


def to_focus(charge: Charge, *, posted: bool, account_id: str) -> Mapping[str, Cell]:
    """Return a line's row; columns that it leaves out are null. `posted` is False for what a running session owes."""
    is_usage = charge.charge_category == ChargeCategory.USAGE
    return (
        _who(charge, account_id)
        | _when(charge)
        | (_used(charge) if is_usage else _given(charge))
        | {
            "BilledCost": _money(charge.billed_cost),
            "ListCost": _money(charge.billed_cost),
            "ContractedCost": _money(charge.billed_cost),
            "EffectiveCost": _money(charge.billed_cost),
            "BillingCurrency": charge.billing_currency,
            "ChargeCategory": charge.charge_category,
            "ChargeClass": charge.charge_class or None,
            "x_ChargeId": charge.charge_key,
            "x_Posted": str(posted).lower(),
            "x_Estimated": str(charge.estimated).lower(),
        }
    )


def _who(charge: Charge, account_id: str) -> dict[str, Cell]:
    tags = {"nbgpu/session": charge.session_id, "nbgpu/flavor": charge.flavor, "nbgpu/group": charge.billing_group}
    return {
        "BillingAccountId": account_id,
        "BillingAccountName": ISSUER,
        "InvoiceIssuerName": ISSUER,
        "ProviderName": ISSUER,
        "PublisherName": ISSUER,
        "ServiceCategory": "Compute",
        "ServiceName": "GPU notebooks",
        "SubAccountId": charge.username,
        "SubAccountName": charge.username,
        "Tags": json.dumps({name: value for name, value in tags.items() if value}, ensure_ascii=False),
    }


def _when(charge: Charge) -> dict[str, Cell]:
    start, end = to_instant(charge.charge_period_start), to_instant(charge.charge_period_end)
    month = start.replace(day=1, hour=0, minute=0, second=0)
    next_month = month.replace(year=month.year + month.month // 12, month=month.month % 12 + 1)
    return {
        "BillingPeriodStart": f"{month:%Y-%m-%dT%H:%M:%SZ}",
        "BillingPeriodEnd": f"{next_month:%Y-%m-%dT%H:%M:%SZ}",
        "ChargePeriodStart": f"{start:%Y-%m-%dT%H:%M:%SZ}",
        "ChargePeriodEnd": f"{end:%Y-%m-%dT%H:%M:%SZ}",
    }


def _used(charge: Charge) -> dict[str, Cell]:
    hours = (Decimal(charge.consumed_seconds) / HOUR).quantize(_QUANTUM)
    price = _money(charge.list_unit_price)
    what = f"device {charge.resource_id}" if charge.resource_id else "server"
    return {
        "ChargeDescription": f"{charge.flavor}: {what}",
        "ChargeFrequency": "Usage-Based",
        "ConsumedQuantity": hours,
        "ConsumedUnit": charge.consumed_unit,
        "ListUnitPrice": price,
        "ContractedUnitPrice": price,
        "PricingCategory": _PRICING.get(charge.sku_id.rpartition(":")[2], "Other"),
        "PricingQuantity": hours,
        "PricingUnit": charge.consumed_unit,
        "ResourceId": charge.resource_id or charge.session_id,
        "ResourceType": "GPU" if charge.resource_id else "Server",
        "SkuId": charge.sku_id,
        "SkuPriceId": f"{charge.sku_id}@{price:f}",
    }


def _given(charge: Charge) -> dict[str, Cell]:
    """A credit or an adjustment: nothing was used."""
    return {"ChargeDescription": charge.reason or charge.charge_category, "ChargeFrequency": "One-Time"}


def _money(micro: int) -> Decimal:
    return Decimal(micro) / MICRO
