/** Finds the trader for whom the owner of a token acts. */

import type { Address } from '#domain/ids.ts'
import { type Rejection, reject } from '#domain/rejection.ts'
import type { Principal } from '#http/route.ts'
import { address } from '#http/schemas.ts'
import type { Delegates } from '#live/delegates.ts'

export const actingTrader = () =>
  address({
    description:
      'The trader of the orders: by default the address of the token, else an account that appointed it as a delegate',
  })

/** Returns the named trader if the token's owner is that account or its delegate; without a name the owner. */
export async function actingFor(
  principal: Principal,
  trader: Address | undefined,
  mayAct: Delegates['mayAct'] | undefined,
): Promise<Address | Rejection> {
  if (trader === undefined || trader === principal.address) return principal.address
  const may = await mayAct?.(trader, principal.address)
  if (may === true) return trader
  return may || reject('NOT_ORDER_OWNER', 'trader')
}
