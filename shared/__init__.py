"""The orchestration package that both compute paths run."""
