"""The names of our scopes in the hub: what its tokens and roles allow of ours. Pure."""

READ_ALL = "custom:nbgpu:usage:read"
OPERATE = "custom:nbgpu:operate"  # may see, keep and stop all sessions, and take devices out of service
BILL = "custom:nbgpu:bill"  # may set prices, quotas and budgets, and give credits
CULL = "custom:nbgpu:cull"  # of the culler's own token: it may ask which servers are due
