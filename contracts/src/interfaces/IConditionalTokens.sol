// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC1155} from "@openzeppelin/contracts/token/ERC1155/IERC1155.sol";

/// What the other contracts of Sibyl need of the conditional tokens.
interface IConditionalTokens is IERC1155 {
    function prepareCondition(address oracle, bytes32 questionId, uint256 outcomeSlotCount)
        external;

    function reportPayouts(bytes32 questionId, uint256[] calldata payouts) external;

    function getOutcomeSlotCount(bytes32 conditionId) external view returns (uint256);

    function payoutDenominator(bytes32 conditionId) external view returns (uint256);
}
