/**
 * External dependencies of threads that use a chain and the database: time, timers, and the functions that open chain
 * clients and the database.
 */

import { makeChainClient } from '#chain/clients.ts'
import { openDatabase } from '#store/open-database.ts'
import { makeReads } from '#store/reads/reads.ts'
import { type Adapters, realWorld, type World } from './world.ts'

export type ChainWorld = World & Pick<Adapters, 'makeChainClient' | 'makeReads' | 'openDatabase'>

export const chainWorld: ChainWorld = { ...realWorld, makeChainClient, makeReads, openDatabase }
