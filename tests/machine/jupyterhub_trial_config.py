"""The least of a real hub: what `nbgpu run` hands over in the environment is used, and nothing else of ours."""

import json
import os

c = get_config()  # noqa: F821
c.JupyterHub.bind_url = f"http://127.0.0.1:{os.environ['NBGPU_PORT']}"
c.JupyterHub.hub_bind_url = f"http://127.0.0.1:{os.environ['TRIAL_HUB_PORT']}"
c.JupyterHub.cleanup_servers = False
c.ConfigurableHTTPProxy.command = json.loads(os.environ["NBGPU_PROXY_COMMAND"])
c.ConfigurableHTTPProxy.api_url = f"http://127.0.0.1:{os.environ['TRIAL_API_PORT']}"
c.Authenticator.allow_all = True
