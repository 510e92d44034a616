// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// TEST ONLY. Replaces the conditional tokens, and rejects payout reports until `relent` is
/// called.
contract StubbornTokens {
    bool public willing;
    uint256[] private _payouts;

    function relent() external {
        willing = true;
    }

    function prepareCondition(address, bytes32, uint256) external {}

    function getOutcomeSlotCount(bytes32) external pure returns (uint256) {
        return 0;
    }

    function reportPayouts(bytes32, uint256[] calldata payouts) external {
        require(willing, "not now");
        _payouts = payouts;
    }

    function reported() external view returns (uint256[] memory) {
        return _payouts;
    }
}
