"""The table of quotas and budgets that were set while the site runs."""

from datetime import datetime

from sqlalchemy import JSON, Integer, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from nbgpu.store.schema import Base, UtcDateTime


class PolicyRow(Base):
    """A quota or budget. One that is removed stays, without fields: its revision tells others that it is gone."""

    __tablename__ = "policies"
    __table_args__ = (UniqueConstraint("kind", "name", name="uq_policies_name"),)

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    kind: Mapped[str] = mapped_column(String(10))
    name: Mapped[str] = mapped_column(String(40))
    fields: Mapped[dict[str, str] | None] = mapped_column(JSON(none_as_null=True))
    revision: Mapped[int] = mapped_column(Integer, index=True)  # of the table, when it was last changed
    author: Mapped[str] = mapped_column(String(255))
    changed_at: Mapped[datetime] = mapped_column(UtcDateTime)
