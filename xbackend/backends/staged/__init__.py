"""Programs over several devices for frameworks whose graphs have one device: graphs are cut into stages."""
