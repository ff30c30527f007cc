"""Which adapter stands behind which port, and with which settings: the only importer of adapters.

A module for each kind of process, and one for each thing that several of them open: `adapters`, `knowledge`, `model`,
`limits`. Each `open_…_ports` is one process's set of ports: connected lazily, closed in reverse order.
Adapters with heavy imports (the model's SDK, numpy, boto3) are imported where they are needed, so that the gateway
never loads them.
"""
