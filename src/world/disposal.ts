/**
 * Defines `Symbol.asyncDispose` on Node 20. Compilers of `await using` (such as esbuild) look up the symbol under this
 * name.
 */
;(Symbol as { asyncDispose?: symbol }).asyncDispose ??= Symbol.for('nodejs.asyncDispose')
