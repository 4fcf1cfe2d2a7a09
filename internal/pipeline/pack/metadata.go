package pack

import "securebench/internal/source"

// Tags returns the row's metadata.tags, by which rows are chosen and counted: a
// list of names.
func (r Row) Tags() (tags []string, err *source.Problem) {
	list := r.Metadata.Given("tags")
	if list == nil {
		return nil, nil
	}
	if list.Kind != source.List {
		return nil, source.Problemf(list.Pos, "metadata.tags must be a list of names, not %s", list.Kind)
	}
	for _, item := range list.Items {
		tag, err := item.Str("each of metadata.tags")
		if err != nil {
			return nil, err
		}
		tags = append(tags, tag)
	}
	return tags, nil
}

// Cluster returns the row's metadata.cluster: the name of a group of rows whose
// results are not independent of each other, or "".
func (r Row) Cluster() (string, *source.Problem) {
	n := r.Metadata.Given("cluster")
	if n == nil {
		return "", nil
	}
	return n.Str("metadata.cluster")
}
