"""What burstchat says: ids, frames, messages and answers. Values only, no behaviour of a process."""
