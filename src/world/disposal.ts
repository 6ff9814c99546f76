/**
 * Defines `Symbol.asyncDispose` on Node 20. Compilers of `await using` (such as esbuild) look up `Symbol.asyncDispose`
 * by its name.
 */
;(Symbol as { asyncDispose?: symbol }).asyncDispose ??= Symbol.for('nodejs.asyncDispose')
