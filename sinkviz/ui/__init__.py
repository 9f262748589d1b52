"""The Streamlit side: shared state, controls, caches, and the mount of the live view."""
