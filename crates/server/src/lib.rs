//! The server: sessions, handles, windows, submission.
