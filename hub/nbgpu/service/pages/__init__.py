"""The service's own pages, behind the hub's login and in its look. Importing `routes` brings JupyterHub: late."""
