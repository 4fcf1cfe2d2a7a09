package workspace

// Folders are the directory names of a pack's tasks. They depend on the pack
// alone: each of its rows gets one, in pack order, whichever rows are used and in
// whatever order.
type Folders struct {
	Namer
	// other has the names that are not those of [DirName], by id.
	other map[string]string
}

// Note names the next row's folder.
func (f *Folders) Note(id string) {
	if name := f.Name(id); name != DirName(id) {
		if f.other == nil {
			f.other = map[string]string{}
		}
		f.other[id] = name
	}
}

// Of returns the name of a row's folder.
func (f *Folders) Of(id string) string {
	if name, ok := f.other[id]; ok {
		return name
	}
	return DirName(id)
}
