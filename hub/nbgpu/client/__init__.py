"""A client of the nbgpu service's REST API: `Client`, with the answers' models and lists that follow their pages.

Errors are of our tree: `ServiceRefused` with the service's own sentence, `ServiceUnavailable` where there is no answer.
"""

from nbgpu.client.client import Client
from nbgpu.core.errors import ServiceRefused, ServiceUnavailable

__all__ = ["Client", "ServiceRefused", "ServiceUnavailable"]
