package document

func readPDF(in *input, out *output, o Options) (Text, error) {
	return Text{}, problem(ErrUnsupported, "not read yet")
}
