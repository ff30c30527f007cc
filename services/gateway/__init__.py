"""The gateway: it holds the sockets, serves the Management API and owns no turn."""
