"""The whole stack on one machine: Valkey, an AWS emulator, a model server, and our services."""
