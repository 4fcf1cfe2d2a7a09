package importer

func exercism() dataset { return dataset{format: Exercism} }
