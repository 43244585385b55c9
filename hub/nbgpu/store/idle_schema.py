"""The table of idleness."""

from typing import Any

from sqlalchemy import JSON, BigInteger, ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from nbgpu.store.schema import Base


class IdleRow(Base):
    """What is found of one session, as of `judged_at`; of one that ended it is the last that was. Instants: s of UTC.

    What a person asked for is in columns of its own, so that the watch and an extension never overwrite each other.
    """

    __tablename__ = "idle"

    session_id: Mapped[str] = mapped_column(String(36), ForeignKey("sessions.session_id"), primary_key=True)
    judged_at: Mapped[int] = mapped_column(BigInteger, server_default="0")
    tracks: Mapped[dict[str, dict[str, Any]]] = mapped_column(JSON, server_default="{}")  # by signal
    # The forecast.
    cause: Mapped[str | None] = mapped_column(String(20))
    since: Mapped[int | None] = mapped_column(BigInteger)
    limit_seconds: Mapped[int | None] = mapped_column(BigInteger)
    forecast_at: Mapped[int | None] = mapped_column(BigInteger)
    move_to: Mapped[str | None] = mapped_column(String(40))
    # The stop that is decided.
    stop_at: Mapped[int | None] = mapped_column(BigInteger, index=True)
    stop_cause: Mapped[str | None] = mapped_column(String(20))
    # The extension.
    extended_until: Mapped[int] = mapped_column(BigInteger, server_default="0")
    extended_seconds: Mapped[int] = mapped_column(BigInteger, server_default="0")
    extended_at: Mapped[int] = mapped_column(BigInteger, server_default="0")
