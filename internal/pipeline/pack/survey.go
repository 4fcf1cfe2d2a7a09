package pack

import "context"

// Survey reads the rows before the pack is loaded, without their assets, and
// calls each for every row that can be read by itself; [Load] reports the others. It
// returns the digest of the file of rows, to be compared with that of the loaded
// pack.
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
	lines, err := openLines(loc.Tasks)
	if err != nil {
		return "", err
	}
	defer lines.close()
	for index := 0; ; index++ {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		raw, more, err := lines.next()
		if err != nil {
			return "", err
		}
		if !more {
			return lines.digest(), nil
		}
		if row, errs, _, err := parseRow(texts, lines.pos(), index, raw); len(errs) == 0 && err == nil {
			each(row)
		}
	}
}
