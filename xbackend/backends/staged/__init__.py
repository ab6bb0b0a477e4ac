"""Programs over several devices for frameworks whose graphs have one: graphs are cut into stages and put together."""
