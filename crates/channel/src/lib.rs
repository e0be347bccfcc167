//! Rings, doorbells, sealed memfds, fd passing and the messages between client, daemon and server.
