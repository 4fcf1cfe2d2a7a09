package pack

import "context"

// Survey reads the rows before the pack is loaded, without their assets, and
// calls each for every row that can be read by itself; [Load] reports the others. It
// returns the digest of the file of rows, to be compared with that of the loaded
// pack, which of a folder of tasks is the same only with the places of texts.
func Survey(ctx context.Context, loc Location, places Texts, each func(Row)) (digest string, err error) {
	m, _, _, err := ReadManifest(loc)
	if err != nil {
		return "", err
	}
	texts, err := openTexts(loc, &m, places)
	if err != nil {
		return "", err
	}
	defer texts.close()
	rows, err := openRows(loc, texts)
	if err != nil {
		return "", err
	}
	defer rows.close()
	for {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		r, more, err := rows.next()
		switch {
		case err != nil && r.Raw == nil:
			return "", err
		case err == nil && !more:
			return rows.digest(), nil
		case err == nil && len(r.errs) == 0:
			each(r.Row)
		}
	}
}
