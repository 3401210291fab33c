package cli

const defaultEditor = "notepad"
