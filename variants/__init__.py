"""The variants that ship with Daedal, one TOML file each."""
