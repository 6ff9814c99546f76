/** Properties are tried on the same values in every run: those of ARKE_SEED, or of 1. */
import fc from 'fast-check'

fc.configureGlobal({ seed: Number(process.env.ARKE_SEED ?? 1) })
