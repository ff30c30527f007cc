"""Which adapter stands behind which port, and with which settings: the only importer of adapters.

One module per kind of process. Each `open_…` is one process's set of ports: connected lazily, closed in reverse order.
Adapters with heavy imports (the model's SDK, numpy, boto3) are imported where they are needed, so that the gateway
never loads them.
"""
