"""Compiled models: what their files hold."""
