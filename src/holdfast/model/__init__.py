"""The nouns that flow between the stages: frozen values, no behaviour beyond their own meaning."""
