package main

// What Lambda costs, as of November 2026 in us-east-1 and eu-west-1 (an assumption
// to be checked against the price list): arm64, without the free tier.
const (
	dollarsPerGBSecond = 0.0000133334
	dollarsPerRequest  = 0.20 / 1e6
	// memoryGB is what the template gives the function.
	memoryGB = 256.0 / 1024
	// gbPerCore is the memory for which Lambda gives one whole core.
	gbPerCore = 1769.0 / 1024
	// secondsPerInvocation is how long an invocation of a drain lasts: the schedule.
	secondsPerInvocation = 60
)

// money is what a million events cost when each takes so many seconds of an
// invocation.
func money(secondsPerEvent float64) float64 {
	seconds := 1e6 * secondsPerEvent
	return seconds*memoryGB*dollarsPerGBSecond + seconds/secondsPerInvocation*dollarsPerRequest
}

// writeMoney writes what a million events cost, with the arithmetic.
func writeMoney(line func(string, ...any), cells []cell, all runs) {
	line("## Dollars per million events\n")
	line("Assumed, November 2026: $%.10f a GB-second on arm64, $%.2f a million requests, a function of %.0f MB, which has %.0f/1769 = %.3f of a core; no free tier; an arm64 core as quick as one here.", dollarsPerGBSecond, dollarsPerRequest*1e6, memoryGB*1024, memoryGB*1024, memoryGB/gbPerCore)
	line("An event takes s seconds of an invocation: the wait for n8n, 1/rate as measured, or its CPU on that part of a core, own CPU / %.3f, whichever is more. A million: 1e6 s x %.2f GB x price + 1e6 s / %d s an invocation x price of a request.\n", memoryGB/gbPerCore, memoryGB, secondsPerInvocation)
	line("| n8n answers in | in flight | 1/rate, ms | own CPU, ms | on %.3f of a core, ms | dollars |", memoryGB/gbPerCore)
	line("|---|---|---|---|---|---|")
	for _, c := range cells {
		r := all[c]["ours"]
		wait, cpu := 1/figure(r, result.rate), figure(r, ownPerThousand)/1000
		slow := cpu / (memoryGB / gbPerCore)
		line("| %d ms | %d | %.2f | %.2f | %.2f | %.4f |", c.ms, c.inFlight, 1000*wait, 1000*cpu, 1000*slow, money(max(wait, slow)))
	}
	for _, rate := range []float64{29, 7} {
		line("| a real n8n on 2 cores, %.0f a second | any | %.2f | | | %.4f |", rate, 1000/rate, money(1/rate))
	}
	line("\nOne empty invocation a minute, 0.1 s each, costs a month: 43,800 x (0.1 s x %.2f GB x price + price of a request) = $%.3f.\n", memoryGB, 43800*(0.1*memoryGB*dollarsPerGBSecond+dollarsPerRequest))
}
