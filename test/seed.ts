/** Sets the seed of all property tests to ARKE_SEED, or to 1, so that every run tries the same values. */
import fc from 'fast-check'

fc.configureGlobal({ seed: Number(process.env.ARKE_SEED ?? 1) })
