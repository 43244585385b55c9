"""Alembic's entry: run the migrations on the connection that `open_database` hands over, in its transaction."""

from alembic import context

from nbgpu.store import idle_schema as idle_schema  # their tables are of Base, too
from nbgpu.store import notice_schema as notice_schema
from nbgpu.store import policy_schema as policy_schema
from nbgpu.store import usage_schema as usage_schema
from nbgpu.store.schema import Base

context.configure(connection=context.config.attributes["connection"], target_metadata=Base.metadata)
context.run_migrations()
