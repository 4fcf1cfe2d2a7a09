package number

import (
	"securebench/internal/family/textmatch"
)

// Words next to a number that change its value, and words that do not.
const (
	// multiples follow a number and make another one of it.
	multiples textmatch.List = " quarter third fourth fifth sixth eighth tenth hundredth thousandth millionth" +
		" mil mln mio mill bil bln bn tn trn permille bps squared cubed factorial doubled tripled quadrupled halved fold" +
		" odd something plus reversed backward octal hex hexadecimal binary exponent power root degreed "
	// functions make another number of the one that they are applied to.
	functions textmatch.List = " sqrt root log ln lg exp sin cos tan cot sec csc arcsin arccos arctan abs floor ceil ceiling" +
		" gcd lcm factorial square squared cube cubed reciprocal complement negation negative negated third quarter fifth" +
		" tenth percent times power multiple multiples factor factors sum product part "
	// applying words may stand between a function and its number.
	applying textmatch.List = " of the a root number "
	// adding gives "up to", which follows, the meaning of "equals".
	adding textmatch.List = " add adds added adding sum sums summing "
	// bounds bound the number that directly follows, or belong to it.
	bounds textmatch.List = " than from before after until till toward towards x point "
	// vague follows "and" and makes a number larger, as in "25 and some".
	vague textmatch.List = " a an some change counting bit more up above over below under rising "
	// articles and connectors stand before a number that only says what the
	// answer counts.
	articles   textmatch.List = " the a each next first last these those all "
	connectors textmatch.List = " per every each in for of "
	// units may touch a number. Letters that may also be a multiple, such as m
	// and k, are not among them.
	units textmatch.List = " km cm mm nm kg mg ml cl dl lb lbs oz ft mi yd hr hrs min mins sec secs ms mph kph kwh kw hz khz mhz" +
		" ghz kb mb gb tb am pm usd eur gbp pts "
	// lengths are units whose square is one too, as in "36 cm squared".
	lengths textmatch.List = " mm cm dm m km in ft yd mi inche inch foot feet yard mile metre meter centimetre centimeter" +
		" millimetre millimeter kilometre kilometer unit "
	percents textmatch.List = " % percent percentage pct "
	// codes of currencies may touch a number, dollarCodes a currency sign.
	codes       textmatch.List = " usd eur gbp inr jpy cny chf cad aud rs "
	dollarCodes textmatch.List = " us usd "
	// currencies pairs words with the sign of the currency that they name.
	currencies textmatch.List = " dollar=$ usd=$ buck=$ us$=$ euro=€ eur=€ pound=£ gbp=£ yen=¥ jpy=¥ yuan=¥ cny=¥ cent=¢ rupee=₹ inr=₹ "
	// money lists the words of a question that speak of money.
	money textmatch.List = " money cost price pay paid earn earned spend spent salary wage profit revenue income worth bill fee" +
		" budget saving save charge currency sell buy owe tax tip discount amount "
	// commands begin a sentence that asks for something.
	commands textmatch.List = " give express find calculate compute determine round write state report answer "
)

// currencyOf returns the sign of the currency that a word names, or 0.
func currencyOf(w string) rune {
	sign, _ := currencies.Value(textmatch.Singular(w))
	for _, r := range sign {
		return r
	}
	return 0
}
