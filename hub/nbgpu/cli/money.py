"""`nbgpu budgets`, `nbgpu quotas` and `nbgpu credit`: what may still be had, and money given back by hand."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer

from nbgpu.cli.author import find_author
from nbgpu.cli.lists import open_site, show_time, show_user_text
from nbgpu.cli.output import JsonOption, print_json, print_table
from nbgpu.cli.setup import DEFAULT_DATA, ConfigOption, DataOption
from nbgpu.core.units import parse_price, render_price

if TYPE_CHECKING:
    from nbgpu.core.quotas import Quota


def budgets(*, data: DataOption = DEFAULT_DATA, config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List budgets as they stand: spent, held by running servers, left, and when all will be spent."""
    from nbgpu.core.plain import plain_account

    site = open_site(data, config)
    accounts, now = site.limits.all_accounts(), int(datetime.now(UTC).timestamp())
    if as_json:
        print_json([plain_account(account, now) for account in accounts])
        return
    print_table(
        ["Budget", "Of", "Amount", "Spent", "Held", "Left", "%", "Until", "Spent by"],
        [
            [
                account.budget.name,
                show_user_text(f"group {account.owner}" if account.budget.is_pool else account.owner),
                render_price(account.budget.amount),
                render_price(account.spent),
                render_price(account.held),
                _show_money(account.left),
                str(account.percent),
                _show(account.period.end),
                _show(account.forecast(now)) or "lasts",
            ]
            for account in accounts
        ],
        empty="There is no budget: [[budget]] in nbgpu.toml or `nbgpu budgets set` makes one.",
    )


def quotas(
    user: Annotated[str, typer.Argument(help="The user.")],
    *,
    group: Annotated[
        list[str] | None, typer.Option("--group", help="A group of theirs; without it those of their newest server.")
    ] = None,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the limits that hold for a user, and what of them is used."""
    from nbgpu.core.plain import plain_quota

    found = open_site(data, config).limits.quotas(user, group or None)
    if as_json:
        print_json([plain_quota(quota) for quota in found])
        return
    print_table(
        ["Limit", "Flavor", "Window", "May have", "Used", "Held", "Anew"],
        [_row_of_quota(quota) for quota in found],
        empty="No quota holds for them: [[quota]] in nbgpu.toml or `nbgpu quotas set` makes one.",
    )


def credit(
    user: Annotated[str, typer.Argument(help="Whom it is given to.")],
    amount: Annotated[str, typer.Argument(help='How much, like "5.00"; with --charge it is taken instead.')],
    *,
    reason: Annotated[str, typer.Option("--reason", help="Why; it stands in the ledger and on statements.")],
    group: Annotated[str, typer.Option("--group", help="The pool that it goes to, where one paid.")] = "",
    session: Annotated[str, typer.Option("--session", help="The session that it is for.")] = "",
    charge: Annotated[bool, typer.Option("--charge", help="Take the amount: an adjustment.")] = False,
    key: Annotated[
        str | None, typer.Option("--key", help="A name of your own for this: given twice, it is posted once.")
    ] = None,
    new: Annotated[bool, typer.Option("--new", help="The user has never had a server: it is no typing error.")] = False,
    data: DataOption = DEFAULT_DATA,
    config: ConfigOption = None,
) -> None:
    """Give money back, or take more, by a line of its own in the ledger: nothing that is there is changed."""
    from nbgpu.core.errors import InvalidOptions, UnknownUser
    from nbgpu.core.ledger import build_credit

    site, author = open_site(data, config), find_author()
    micro = _parse_amount(amount)
    if not micro or not reason.strip():
        raise InvalidOptions("A credit needs an amount above 0 and a --reason.")
    if not new and not site.statements.knows(user):
        raise UnknownUser(
            f"Nobody of the name “{user[:80]}” has ever had a server. "
            "Look for a typing error; for a new user give --new."
        )
    lease = site.leases.find(session) if session else None
    if session and (lease is None or lease.server.username != user):
        raise InvalidOptions(f"{user[:80]} has no session {session[:40]}.")
    currency = site.settings.billing.currency
    line = build_credit(
        key=(key or str(uuid4()))[:200],
        username=user[:255],
        amount=-micro if charge else micro,
        currency=currency,
        at=int(datetime.now(UTC).timestamp()),
        author=author,
        reason=reason[:1000],
        billing_group=group[:255] or (lease.billing_group if lease is not None else ""),
        session_id=session,
        flavor=lease.flavor if lease is not None else "",
    )
    if not site.ledger.post([line]):
        typer.echo(f"“{key}” was posted before: nothing is changed.")
        return
    verb = "taken from" if charge else "given to"
    site.audit.record(
        actor=author, action="ledger.credit", subject=user, detail=f"{amount} {currency} {verb} them: {reason}"
    )
    typer.echo(f"{render_price(micro)} {currency} {verb} {show_user_text(user)}.")


def _parse_amount(amount: str) -> int:
    """Return an amount in micro-units. Raises InvalidOptions."""
    from nbgpu.core.errors import InvalidOptions

    try:
        return parse_price(amount)
    except ValueError as error:
        raise InvalidOptions(f"The amount “{amount[:40]}” is not {error}.") from None


def _show(seconds: int | None) -> str:
    return show_time(datetime.fromtimestamp(seconds, UTC)) if seconds is not None else ""


def _show_money(micro: int) -> str:
    return render_price(micro) if micro >= 0 else f"-{render_price(-micro)}"


def _row_of_quota(quota: "Quota") -> list[str]:
    from nbgpu.core.quotas import LimitKind, describe_window, render_hours

    limit = quota.limit
    in_hours = limit.kind in (LimitKind.GPU_SECONDS, LimitKind.LONGEST)
    names = {LimitKind.GPU_SECONDS: "GPU-hours", LimitKind.LONGEST: "hours of a session", LimitKind.GPUS: "GPUs"}
    return [
        names.get(limit.kind, limit.kind.value),
        limit.flavor or "all",
        str(describe_window(limit.window)) if limit.window is not None else "",
        *(render_hours(each) if in_hours else str(each) for each in (limit.value, quota.used)),
        render_hours(quota.held) if limit.kind is LimitKind.GPU_SECONDS else "",
        _show(quota.resets_at),
    ]
