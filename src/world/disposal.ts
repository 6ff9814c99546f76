/** Defines `Symbol.asyncDispose` on Node 20. Compilers of `await using` expect the symbol at this name. */
;(Symbol as { asyncDispose?: symbol }).asyncDispose ??= Symbol.for('nodejs.asyncDispose')
