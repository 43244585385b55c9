"""The export in FOCUS's columns: held to the specification's rules and to the FinOps Foundation's own validator."""

import csv
import io
import json
import subprocess
import sys
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest

from nbgpu.cli.statement import write_focus
from nbgpu.core.focus import COLUMNS
from nbgpu.core.ledger import build_credit
from nbgpu.core.periods import HOUR
from store.charges import charge

START = 1_774_744_200  # 2026-03-29 00:30 UTC
CHARGES = [
    charge(START, 1800),
    charge(START + 1800, HOUR, resource_id="", sku_id="a100:host:spot", username="=cmd|'/C calc'!A0"),
    charge(START, 1801, charge_class="Correction", billed_cost=-7, consumed_seconds=-61, sku_id="a100:gpu:reserved"),
    build_credit(key="k", username="ann", amount=500_000, currency="USD", at=START, author="adm", reason="GPU lost"),
    build_credit(key="l", username="ann", amount=-500_000, currency="USD", at=START, author="adm", reason="-1"),
]
NOT_NULL = {
    "BilledCost", "BillingAccountId", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory",
    "ChargePeriodEnd", "ChargePeriodStart", "ContractedCost", "EffectiveCost", "InvoiceIssuerName", "ListCost",
    "ProviderName", "PublisherName", "ServiceCategory", "ServiceName",
}  # fmt: skip
ALLOWED = {
    "ChargeCategory": {"Usage", "Purchase", "Tax", "Credit", "Adjustment"},
    "ChargeClass": {"Correction", ""},
    "ChargeFrequency": {"One-Time", "Recurring", "Usage-Based"},
    "PricingCategory": {"Standard", "Dynamic", "Committed", "Other", ""},
    "ServiceCategory": {"Compute"},
}
DECIMALS = {"BilledCost", "ConsumedQuantity", "ContractedCost", "ContractedUnitPrice", "EffectiveCost", "ListCost"}
DECIMALS |= {"ListUnitPrice", "PricingQuantity"}
# Where the validator's rules for 1.0 still have the names of an earlier draft.
OLD_NAMES = {
    "ProviderName": "Provider",
    "PublisherName": "Publisher",
    "InvoiceIssuerName": "InvoiceIssuer",
    "ResourceId": "ResourceID",
}
VALIDATOR = Path(sys.prefix) / "focus" / "bin" / "focus-validator"


@pytest.fixture
def exported(tmp_path) -> Path:
    file = tmp_path / "focus.csv"
    write_focus(file, [(each, number != 1) for number, each in enumerate(CHARGES)], account_id="nbgpu-0000")
    return file


def read(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(file.read_bytes().decode())))


def test_every_row_keeps_the_rules_of_the_specification(exported):
    rows = read(exported)
    assert tuple(rows[0]) == COLUMNS
    for row in rows:
        assert {column for column in NOT_NULL if not row[column]} == set()
        assert {column: row[column] for column, allowed in ALLOWED.items() if row[column] not in allowed} == {}
        assert all(Decimal(row[column]).is_finite() for column in DECIMALS if row[column])
        for column in ("BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd"):
            assert row[column].endswith("Z")
            assert datetime.fromisoformat(row[column]).utcoffset().total_seconds() == 0
        assert row["BillingPeriodStart"] <= row["ChargePeriodStart"] <= row["BillingPeriodEnd"]
        assert isinstance(json.loads(row["Tags"]), dict)
        used = ("ConsumedQuantity", "ConsumedUnit", "ListUnitPrice", "SkuPriceId", "SkuId", "PricingUnit")
        assert {bool(row[column]) for column in used} == {row["ChargeCategory"] == "Usage"}


def test_what_the_columns_say_is_what_the_ledger_says(exported):
    rows = read(exported)
    assert [Decimal(row["BilledCost"]) * 1_000_000 for row in rows] == [each.billed_cost for each in CHARGES]
    quantities = [Decimal(row["ConsumedQuantity"] or 0) * HOUR for row in rows]
    assert [round(each) for each in quantities] == [each.consumed_seconds for each in CHARGES]
    assert [row["ResourceId"] for row in rows] == ["GPU-1", "s", "GPU-1", "", ""]
    assert [row["PricingCategory"] for row in rows] == ["Standard", "Dynamic", "Committed", "", ""]
    assert [row["x_Posted"] for row in rows] == ["true", "false", "true", "true", "true"]
    assert rows[1]["SubAccountId"] == "'=cmd|'/C calc'!A0"
    assert rows[4]["ChargeDescription"] == "'-1"


@pytest.mark.skipif(not VALIDATOR.exists(), reason="the FOCUS validator is not installed (.ci/focus-validator)")
@pytest.mark.parametrize("valid", [True, False])
def test_the_foundations_own_validator_finds_nothing(exported, valid):
    rows = list(csv.reader(io.StringIO(exported.read_bytes().decode())))
    category = rows[0].index("ChargeCategory")
    rows[0] = [OLD_NAMES.get(name, name) for name in rows[0]]
    rows = [[*row, row[category]] for row in rows]
    rows[0][-1] = "ChargeType"  # the draft's name again: the rule for SkuPriceId asks for it
    if not valid:
        rows[1][rows[0].index("ChargeFrequency")] = "Hourly"
    with exported.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    packages = next(VALIDATOR.parents[1].glob("lib/python*/site-packages"))
    done = subprocess.run(
        [VALIDATOR, "--data-file", exported, "--validate-version", "1.0"],
        cwd=packages,  # it looks for its list of currencies there
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert ("Validation succeeded." if valid else "ChargeFrequency_Enum failed") in done.stdout
