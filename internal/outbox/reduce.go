package outbox

// refusedText stands in last_error where the database refused the real one. It has
// nothing that any encoding lacks, and is shorter than any length people declare.
const refusedText = "The database refused the real text."

// runIDLengths are what an execution id that the database refuses is cut to, one
// after the other: lengths that people give a varchar, then nothing. They are few,
// since each is a try of its own.
var runIDLengths = []int{255, 36, 8, 0}

// cutMark ends an execution id that was cut: without it the beginning of one id
// would look like another.
const cutMark = "..."

// Reduce returns the next smaller form of an outcome that the database refuses to
// write, such as one with an execution id longer than its column. ok is false if
// there is none. What is decided stays: status, delay and fence. So an event that
// was acknowledged is recorded as succeeded, with a shorter execution id or
// without one, and is never sent again for the sake of a detail.
//
//	succeeded   the execution id cut to 255, 36 and 8 characters, then none
//	otherwise   a fixed last_error; then none, with the code unknownError
func Reduce(o Outcome) (smaller Outcome, ok bool) {
	switch {
	case o.Status == Succeeded:
		runes := []rune(o.RunID)
		for _, length := range runIDLengths {
			if length < len(runes) {
				o.RunID = ""
				if keep := length - len(cutMark); keep > 0 {
					o.RunID = string(runes[:keep]) + cutMark
				}
				return o, true
			}
		}
		return o, false
	case o.Error != "" && o.Error != refusedText:
		o.Error = refusedText
	case o.Error != "" || o.Code != UnknownError:
		o.Error, o.Code = "", UnknownError
	default:
		return o, false
	}
	return o, true
}
