/** Checks the verifier keys of witnesses before anything starts. */

import { SettingsError } from '#config/settings.ts'
import type { Settings } from '#config/settings-schema.ts'

/**
 * Throws if an entry of `SIBYL_TRANSPARENCY_WITNESSES` is not a witness's verifier key followed by `@` and
 * the witness's URL.
 */
export async function requireWitnesses({ transparency }: Settings): Promise<void> {
  if (transparency.witnesses.length === 0) return
  // The module is loaded on demand: most exchanges have no witnesses, and need no library for signatures on this
  // thread.
  const { parseWitness } = await import('#transparency/witness-request.ts')
  for (const witness of transparency.witnesses) {
    if (parseWitness(witness) !== undefined) continue
    throw new SettingsError(
      `SIBYL_TRANSPARENCY_WITNESSES: ${witness} must have the form name+id+key@https://…; ` +
        'the command sibyl log witness prints name+id+key, the verifier key of the witness',
    )
  }
}
