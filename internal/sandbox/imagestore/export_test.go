package imagestore

// What tests beside a Docker engine, whose kit imports this package, need of the others.
var (
	ImageOf   = imageOf
	TarOf     = tarOf
	IndexOf   = indexOf
	Server    = server
	Refusing  = refusing
	Push      = push
	OpenStore = openStore
	Write     = write
	Contents  = contents
)
