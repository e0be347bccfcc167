//! NVML's functions. Made by `cargo xtask generate`; do not edit.
#![cfg_attr(rustfmt, rustfmt_skip)]

/// Every exported function that has an entry, sorted.
pub(crate) const NAMES: &[&str] = &[
    "nvmlComputeInstanceDestroy",
    "nvmlComputeInstanceGetInfo",
    "nvmlComputeInstanceGetInfo_v2",
    "nvmlDeviceClearAccountingPids",
    "nvmlDeviceClearCpuAffinity",
    "nvmlDeviceClearEccErrorCounts",
    "nvmlDeviceClearFieldValues",
    "nvmlDeviceCreateGpuInstance",
    "nvmlDeviceCreateGpuInstanceWithPlacement",
    "nvmlDeviceDiscoverGpus",
    "nvmlDeviceFreezeNvLinkUtilizationCounter",
    "nvmlDeviceGetAPIRestriction",
    "nvmlDeviceGetAccountingBufferSize",
    "nvmlDeviceGetAccountingMode",
    "nvmlDeviceGetAccountingPids",
    "nvmlDeviceGetAccountingStats",
    "nvmlDeviceGetAccountingStats_v2",
    "nvmlDeviceGetActiveVgpus",
    "nvmlDeviceGetAdaptiveClockInfoStatus",
    "nvmlDeviceGetAdaptiveTgpModeInfo_v1",
    "nvmlDeviceGetAddressingMode",
    "nvmlDeviceGetApplicationsClock",
    "nvmlDeviceGetArchitecture",
    "nvmlDeviceGetAttributes",
    "nvmlDeviceGetAttributes_v2",
    "nvmlDeviceGetAutoBoostedClocksEnabled",
    "nvmlDeviceGetBAR1MemoryInfo",
    "nvmlDeviceGetBBXTimeData_v1",
    "nvmlDeviceGetBankRemapperStatus_v1",
    "nvmlDeviceGetBoardId",
    "nvmlDeviceGetBoardPartNumber",
    "nvmlDeviceGetBrand",
    "nvmlDeviceGetBridgeChipInfo",
    "nvmlDeviceGetBusType",
    "nvmlDeviceGetC2cModeInfoV",
    "nvmlDeviceGetCapabilities",
    "nvmlDeviceGetClkMonStatus",
    "nvmlDeviceGetClock",
    "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetClockOffsets",
    "nvmlDeviceGetComputeInstanceId",
    "nvmlDeviceGetComputeMode",
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetComputeRunningProcesses_v2",
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetConfComputeGpuAttestationReport",
    "nvmlDeviceGetConfComputeGpuCertificate",
    "nvmlDeviceGetConfComputeMemSizeInfo",
    "nvmlDeviceGetConfComputeProtectedMemoryUsage",
    "nvmlDeviceGetCoolerInfo",
    "nvmlDeviceGetCount",
    "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetCpuAffinity",
    "nvmlDeviceGetCpuAffinityWithinScope",
    "nvmlDeviceGetCreatableVgpus",
    "nvmlDeviceGetCudaComputeCapability",
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetCurrentClockFreqs",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetDecoderUtilization",
    "nvmlDeviceGetDefaultApplicationsClock",
    "nvmlDeviceGetDefaultEccMode",
    "nvmlDeviceGetDetailedEccErrors",
    "nvmlDeviceGetDeviceHandleFromMigDeviceHandle",
    "nvmlDeviceGetDisplayActive",
    "nvmlDeviceGetDisplayMode",
    "nvmlDeviceGetDramEncryptionMode",
    "nvmlDeviceGetDriverModel",
    "nvmlDeviceGetDriverModel_v2",
    "nvmlDeviceGetDynamicPstatesInfo",
    "nvmlDeviceGetEccMode",
    "nvmlDeviceGetEncoderCapacity",
    "nvmlDeviceGetEncoderSessions",
    "nvmlDeviceGetEncoderStats",
    "nvmlDeviceGetEncoderUtilization",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetFBCSessions",
    "nvmlDeviceGetFBCStats",
    "nvmlDeviceGetFanControlPolicy_v2",
    "nvmlDeviceGetFanSpeed",
    "nvmlDeviceGetFanSpeedRPM",
    "nvmlDeviceGetFanSpeed_v2",
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetGpcClkMinMaxVfOffset",
    "nvmlDeviceGetGpcClkVfOffset",
    "nvmlDeviceGetGpuFabricInfo",
    "nvmlDeviceGetGpuFabricInfoV",
    "nvmlDeviceGetGpuFabricInfo_v4",
    "nvmlDeviceGetGpuInstanceById",
    "nvmlDeviceGetGpuInstanceId",
    "nvmlDeviceGetGpuInstancePossiblePlacements",
    "nvmlDeviceGetGpuInstancePossiblePlacements_v2",
    "nvmlDeviceGetGpuInstanceProfileInfo",
    "nvmlDeviceGetGpuInstanceProfileInfoByIdV",
    "nvmlDeviceGetGpuInstanceProfileInfoV",
    "nvmlDeviceGetGpuInstanceRemainingCapacity",
    "nvmlDeviceGetGpuInstances",
    "nvmlDeviceGetGpuMaxPcieLinkGeneration",
    "nvmlDeviceGetGpuOperationMode",
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses_v2",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetGridLicensableFeatures",
    "nvmlDeviceGetGridLicensableFeatures_v2",
    "nvmlDeviceGetGridLicensableFeatures_v3",
    "nvmlDeviceGetGridLicensableFeatures_v4",
    "nvmlDeviceGetGspFirmwareMode",
    "nvmlDeviceGetGspFirmwareVersion",
    "nvmlDeviceGetHandleByIndex",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetHandleByPciBusId",
    "nvmlDeviceGetHandleByPciBusId_v2",
    "nvmlDeviceGetHandleBySerial",
    "nvmlDeviceGetHandleByUUID",
    "nvmlDeviceGetHandleByUUIDV",
    "nvmlDeviceGetHostVgpuMode",
    "nvmlDeviceGetHostname_v1",
    "nvmlDeviceGetIndex",
    "nvmlDeviceGetInforomConfigurationChecksum",
    "nvmlDeviceGetInforomImageVersion",
    "nvmlDeviceGetInforomVersion",
    "nvmlDeviceGetIrqNum",
    "nvmlDeviceGetJpgUtilization",
    "nvmlDeviceGetLastBBXFlushTime",
    "nvmlDeviceGetMPSComputeRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses_v2",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "nvmlDeviceGetMarginTemperature",
    "nvmlDeviceGetMaxClockInfo",
    "nvmlDeviceGetMaxCustomerBoostClock",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetMemClkMinMaxVfOffset",
    "nvmlDeviceGetMemClkVfOffset",
    "nvmlDeviceGetMemoryAffinity",
    "nvmlDeviceGetMemoryBusWidth",
    "nvmlDeviceGetMemoryErrorCounter",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetMemoryLimits_v1",
    "nvmlDeviceGetMigDeviceHandleByIndex",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMinMaxClockOfPState",
    "nvmlDeviceGetMinMaxFanSpeed",
    "nvmlDeviceGetMinorNumber",
    "nvmlDeviceGetModuleId",
    "nvmlDeviceGetMultiGpuBoard",
    "nvmlDeviceGetName",
    "nvmlDeviceGetNumFans",
    "nvmlDeviceGetNumGpuCores",
    "nvmlDeviceGetNumaNodeId",
    "nvmlDeviceGetNvLinkCapability",
    "nvmlDeviceGetNvLinkErrorCounter",
    "nvmlDeviceGetNvLinkInfo",
    "nvmlDeviceGetNvLinkRemoteDeviceType",
    "nvmlDeviceGetNvLinkRemotePciInfo",
    "nvmlDeviceGetNvLinkRemotePciInfo_v2",
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetNvLinkTelemetrySamples_v1",
    "nvmlDeviceGetNvLinkUtilizationControl",
    "nvmlDeviceGetNvLinkUtilizationCounter",
    "nvmlDeviceGetNvLinkVersion",
    "nvmlDeviceGetNvlinkBwMode",
    "nvmlDeviceGetNvlinkSupportedBwModes",
    "nvmlDeviceGetOfaUtilization",
    "nvmlDeviceGetP2PStatus",
    "nvmlDeviceGetPciInfo",
    "nvmlDeviceGetPciInfoExt",
    "nvmlDeviceGetPciInfo_v2",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetPcieLinkMaxSpeed",
    "nvmlDeviceGetPcieReplayCounter",
    "nvmlDeviceGetPcieSpeed",
    "nvmlDeviceGetPcieThroughput",
    "nvmlDeviceGetPdi",
    "nvmlDeviceGetPerformanceModes",
    "nvmlDeviceGetPerformanceState",
    "nvmlDeviceGetPersistenceMode",
    "nvmlDeviceGetPgpuMetadataString",
    "nvmlDeviceGetPlatformInfo",
    "nvmlDeviceGetPowerManagementDefaultLimit",
    "nvmlDeviceGetPowerManagementLimit",
    "nvmlDeviceGetPowerManagementLimitConstraints",
    "nvmlDeviceGetPowerManagementMode",
    "nvmlDeviceGetPowerMizerMode_v1",
    "nvmlDeviceGetPowerSource",
    "nvmlDeviceGetPowerState",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetProcessUtilization",
    "nvmlDeviceGetProcessesUtilizationInfo",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetRemappedRows_v2",
    "nvmlDeviceGetRepairStatus",
    "nvmlDeviceGetRetiredPages",
    "nvmlDeviceGetRetiredPagesPendingStatus",
    "nvmlDeviceGetRetiredPages_v2",
    "nvmlDeviceGetRowRemapperHistogram",
    "nvmlDeviceGetRunningProcessDetailList",
    "nvmlDeviceGetSamples",
    "nvmlDeviceGetSerial",
    "nvmlDeviceGetSramEccErrorStatus",
    "nvmlDeviceGetSramUniqueUncorrectedEccErrorCounts",
    "nvmlDeviceGetSupportedClocksEventReasons",
    "nvmlDeviceGetSupportedClocksThrottleReasons",
    "nvmlDeviceGetSupportedEventTypes",
    "nvmlDeviceGetSupportedGraphicsClocks",
    "nvmlDeviceGetSupportedMemoryClocks",
    "nvmlDeviceGetSupportedPerformanceStates",
    "nvmlDeviceGetSupportedVgpus",
    "nvmlDeviceGetTargetFanSpeed",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetTemperatureThreshold",
    "nvmlDeviceGetTemperatureV",
    "nvmlDeviceGetThermalSettings",
    "nvmlDeviceGetTopologyCommonAncestor",
    "nvmlDeviceGetTopologyNearestGpus",
    "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetUnrepairableMemoryFlag_v1",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetVbiosVersion",
    "nvmlDeviceGetVgpuCapabilities",
    "nvmlDeviceGetVgpuHeterogeneousMode",
    "nvmlDeviceGetVgpuInstancesUtilizationInfo",
    "nvmlDeviceGetVgpuMetadata",
    "nvmlDeviceGetVgpuProcessUtilization",
    "nvmlDeviceGetVgpuProcessesUtilizationInfo",
    "nvmlDeviceGetVgpuSchedulerCapabilities",
    "nvmlDeviceGetVgpuSchedulerLog",
    "nvmlDeviceGetVgpuSchedulerLog_v2",
    "nvmlDeviceGetVgpuSchedulerState",
    "nvmlDeviceGetVgpuSchedulerState_v2",
    "nvmlDeviceGetVgpuTypeCreatablePlacements",
    "nvmlDeviceGetVgpuTypeSupportedPlacements",
    "nvmlDeviceGetVgpuUtilization",
    "nvmlDeviceGetViolationStatus",
    "nvmlDeviceGetVirtualizationMode",
    "nvmlDeviceIsMigDeviceHandle",
    "nvmlDeviceModifyDrainState",
    "nvmlDeviceOnSameBoard",
    "nvmlDevicePerfMetricsGetSamples_v1",
    "nvmlDevicePowerSmoothingActivatePresetProfile",
    "nvmlDevicePowerSmoothingSetState",
    "nvmlDevicePowerSmoothingUpdatePresetProfileParam",
    "nvmlDeviceQueryDrainState",
    "nvmlDeviceReadPRMCounters_v1",
    "nvmlDeviceReadWritePRM_v1",
    "nvmlDeviceRegisterEvents",
    "nvmlDeviceRemoveGpu",
    "nvmlDeviceRemoveGpu_v2",
    "nvmlDeviceResetApplicationsClocks",
    "nvmlDeviceResetGpuLockedClocks",
    "nvmlDeviceResetMemoryLockedClocks",
    "nvmlDeviceResetNvLinkErrorCounters",
    "nvmlDeviceResetNvLinkUtilizationCounter",
    "nvmlDeviceSetAPIRestriction",
    "nvmlDeviceSetAccountingMode",
    "nvmlDeviceSetAdaptiveTgpMode_v1",
    "nvmlDeviceSetApplicationsClocks",
    "nvmlDeviceSetAutoBoostedClocksEnabled",
    "nvmlDeviceSetClockOffsets",
    "nvmlDeviceSetComputeMode",
    "nvmlDeviceSetConfComputeUnprotectedMemSize",
    "nvmlDeviceSetCpuAffinity",
    "nvmlDeviceSetDefaultAutoBoostedClocksEnabled",
    "nvmlDeviceSetDefaultFanSpeed_v2",
    "nvmlDeviceSetDramEncryptionMode",
    "nvmlDeviceSetDriverModel",
    "nvmlDeviceSetEccMode",
    "nvmlDeviceSetFanControlPolicy",
    "nvmlDeviceSetFanSpeed_v2",
    "nvmlDeviceSetGpcClkVfOffset",
    "nvmlDeviceSetGpuLockedClocks",
    "nvmlDeviceSetGpuOperationMode",
    "nvmlDeviceSetHostname_v1",
    "nvmlDeviceSetMemClkVfOffset",
    "nvmlDeviceSetMemoryLimits_v1",
    "nvmlDeviceSetMemoryLockedClocks",
    "nvmlDeviceSetMigMode",
    "nvmlDeviceSetNvLinkDeviceLowPowerThreshold",
    "nvmlDeviceSetNvLinkUtilizationControl",
    "nvmlDeviceSetNvlinkBwMode",
    "nvmlDeviceSetNvlinkBwModeAsync_v1",
    "nvmlDeviceSetPersistenceMode",
    "nvmlDeviceSetPowerManagementLimit",
    "nvmlDeviceSetPowerManagementLimit_v2",
    "nvmlDeviceSetPowerMizerMode_v1",
    "nvmlDeviceSetRusdSettings_v1",
    "nvmlDeviceSetTemperatureThreshold",
    "nvmlDeviceSetVgpuCapabilities",
    "nvmlDeviceSetVgpuHeterogeneousMode",
    "nvmlDeviceSetVgpuSchedulerState",
    "nvmlDeviceSetVgpuSchedulerState_v2",
    "nvmlDeviceSetVirtualizationMode",
    "nvmlDeviceValidateInforom",
    "nvmlDeviceVgpuForceGspUnload",
    "nvmlDeviceWorkloadPowerProfileClearRequestedProfiles",
    "nvmlDeviceWorkloadPowerProfileGetCurrentProfiles",
    "nvmlDeviceWorkloadPowerProfileGetProfilesInfo",
    "nvmlDeviceWorkloadPowerProfileSetRequestedProfiles",
    "nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1",
    "nvmlEventSetCreate",
    "nvmlEventSetFree",
    "nvmlEventSetGetContextCount_v1",
    "nvmlEventSetGetContextData_v1",
    "nvmlEventSetGetContextInfo_v1",
    "nvmlEventSetGetGpuOperationalEventContextLegacyXid_v1",
    "nvmlEventSetRegisterGpuOperationalEvents_v1",
    "nvmlEventSetWait",
    "nvmlEventSetWait_v2",
    "nvmlEventSetWait_v3",
    "nvmlGetExcludedDeviceCount",
    "nvmlGetExcludedDeviceInfoByIndex",
    "nvmlGetVgpuCompatibility",
    "nvmlGetVgpuDriverCapabilities",
    "nvmlGetVgpuVersion",
    "nvmlGpmMetricsGet",
    "nvmlGpmMigSampleGet",
    "nvmlGpmQueryDeviceSupport",
    "nvmlGpmQueryIfStreamingEnabled",
    "nvmlGpmSampleAlloc",
    "nvmlGpmSampleFree",
    "nvmlGpmSampleGet",
    "nvmlGpmSetStreamingEnabled",
    "nvmlGpuInstanceCreateComputeInstance",
    "nvmlGpuInstanceCreateComputeInstanceWithPlacement",
    "nvmlGpuInstanceDestroy",
    "nvmlGpuInstanceGetActiveVgpus",
    "nvmlGpuInstanceGetComputeInstanceById",
    "nvmlGpuInstanceGetComputeInstancePossiblePlacements",
    "nvmlGpuInstanceGetComputeInstanceProfileInfo",
    "nvmlGpuInstanceGetComputeInstanceProfileInfoV",
    "nvmlGpuInstanceGetComputeInstanceRemainingCapacity",
    "nvmlGpuInstanceGetComputeInstances",
    "nvmlGpuInstanceGetCreatableVgpus",
    "nvmlGpuInstanceGetInfo",
    "nvmlGpuInstanceGetVgpuHeterogeneousMode",
    "nvmlGpuInstanceGetVgpuSchedulerLog",
    "nvmlGpuInstanceGetVgpuSchedulerLog_v2",
    "nvmlGpuInstanceGetVgpuSchedulerState",
    "nvmlGpuInstanceGetVgpuSchedulerState_v2",
    "nvmlGpuInstanceGetVgpuTypeCreatablePlacements",
    "nvmlGpuInstanceSetVgpuHeterogeneousMode",
    "nvmlGpuInstanceSetVgpuSchedulerState",
    "nvmlGpuInstanceSetVgpuSchedulerState_v2",
    "nvmlSetVgpuVersion",
    "nvmlSystemEventSetCreate",
    "nvmlSystemEventSetFree",
    "nvmlSystemEventSetWait",
    "nvmlSystemGetCPER_v1",
    "nvmlSystemGetConfComputeCapabilities",
    "nvmlSystemGetConfComputeGpusReadyState",
    "nvmlSystemGetConfComputeKeyRotationThresholdInfo",
    "nvmlSystemGetConfComputeSettings",
    "nvmlSystemGetConfComputeState",
    "nvmlSystemGetCudaDriverVersion",
    "nvmlSystemGetCudaDriverVersion_v2",
    "nvmlSystemGetDriverBranch",
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetHicVersion",
    "nvmlSystemGetNVMLVersion",
    "nvmlSystemGetNvlinkBwMode",
    "nvmlSystemGetProcessName",
    "nvmlSystemGetTopologyGpuSet",
    "nvmlSystemRegisterEvents",
    "nvmlSystemSetConfComputeGpusReadyState",
    "nvmlSystemSetConfComputeKeyRotationThresholdInfo",
    "nvmlSystemSetNvlinkBwMode",
    "nvmlUnitGetCount",
    "nvmlUnitGetDevices",
    "nvmlUnitGetFanSpeedInfo",
    "nvmlUnitGetHandleByIndex",
    "nvmlUnitGetLedState",
    "nvmlUnitGetPsuInfo",
    "nvmlUnitGetTemperature",
    "nvmlUnitGetUnitInfo",
    "nvmlUnitSetLedState",
    "nvmlVgpuInstanceClearAccountingPids",
    "nvmlVgpuInstanceGetAccountingMode",
    "nvmlVgpuInstanceGetAccountingPids",
    "nvmlVgpuInstanceGetAccountingStats",
    "nvmlVgpuInstanceGetEccMode",
    "nvmlVgpuInstanceGetEncoderCapacity",
    "nvmlVgpuInstanceGetEncoderSessions",
    "nvmlVgpuInstanceGetEncoderStats",
    "nvmlVgpuInstanceGetFBCSessions",
    "nvmlVgpuInstanceGetFBCStats",
    "nvmlVgpuInstanceGetFbUsage",
    "nvmlVgpuInstanceGetFrameRateLimit",
    "nvmlVgpuInstanceGetGpuInstanceId",
    "nvmlVgpuInstanceGetGpuPciId",
    "nvmlVgpuInstanceGetLicenseInfo",
    "nvmlVgpuInstanceGetLicenseInfo_v2",
    "nvmlVgpuInstanceGetLicenseStatus",
    "nvmlVgpuInstanceGetMdevUUID",
    "nvmlVgpuInstanceGetMetadata",
    "nvmlVgpuInstanceGetPlacementId",
    "nvmlVgpuInstanceGetRuntimeStateSize",
    "nvmlVgpuInstanceGetType",
    "nvmlVgpuInstanceGetUUID",
    "nvmlVgpuInstanceGetVmDriverVersion",
    "nvmlVgpuInstanceGetVmID",
    "nvmlVgpuInstanceSetEncoderCapacity",
    "nvmlVgpuTypeGetBAR1Info",
    "nvmlVgpuTypeGetCapabilities",
    "nvmlVgpuTypeGetClass",
    "nvmlVgpuTypeGetDeviceID",
    "nvmlVgpuTypeGetFbReservation",
    "nvmlVgpuTypeGetFrameRateLimit",
    "nvmlVgpuTypeGetFramebufferSize",
    "nvmlVgpuTypeGetGpuInstanceProfileId",
    "nvmlVgpuTypeGetGspHeapSize",
    "nvmlVgpuTypeGetLicense",
    "nvmlVgpuTypeGetMaxInstances",
    "nvmlVgpuTypeGetMaxInstancesPerGpuInstance",
    "nvmlVgpuTypeGetMaxInstancesPerVm",
    "nvmlVgpuTypeGetName",
    "nvmlVgpuTypeGetNumDisplayHeads",
    "nvmlVgpuTypeGetResolution",
];

/// Gives a macro the index and name of each.
macro_rules! exported_functions {
    ($then:ident) => {
        $then! {
            0 nvmlComputeInstanceDestroy;
            1 nvmlComputeInstanceGetInfo;
            2 nvmlComputeInstanceGetInfo_v2;
            3 nvmlDeviceClearAccountingPids;
            4 nvmlDeviceClearCpuAffinity;
            5 nvmlDeviceClearEccErrorCounts;
            6 nvmlDeviceClearFieldValues;
            7 nvmlDeviceCreateGpuInstance;
            8 nvmlDeviceCreateGpuInstanceWithPlacement;
            9 nvmlDeviceDiscoverGpus;
            10 nvmlDeviceFreezeNvLinkUtilizationCounter;
            11 nvmlDeviceGetAPIRestriction;
            12 nvmlDeviceGetAccountingBufferSize;
            13 nvmlDeviceGetAccountingMode;
            14 nvmlDeviceGetAccountingPids;
            15 nvmlDeviceGetAccountingStats;
            16 nvmlDeviceGetAccountingStats_v2;
            17 nvmlDeviceGetActiveVgpus;
            18 nvmlDeviceGetAdaptiveClockInfoStatus;
            19 nvmlDeviceGetAdaptiveTgpModeInfo_v1;
            20 nvmlDeviceGetAddressingMode;
            21 nvmlDeviceGetApplicationsClock;
            22 nvmlDeviceGetArchitecture;
            23 nvmlDeviceGetAttributes;
            24 nvmlDeviceGetAttributes_v2;
            25 nvmlDeviceGetAutoBoostedClocksEnabled;
            26 nvmlDeviceGetBAR1MemoryInfo;
            27 nvmlDeviceGetBBXTimeData_v1;
            28 nvmlDeviceGetBankRemapperStatus_v1;
            29 nvmlDeviceGetBoardId;
            30 nvmlDeviceGetBoardPartNumber;
            31 nvmlDeviceGetBrand;
            32 nvmlDeviceGetBridgeChipInfo;
            33 nvmlDeviceGetBusType;
            34 nvmlDeviceGetC2cModeInfoV;
            35 nvmlDeviceGetCapabilities;
            36 nvmlDeviceGetClkMonStatus;
            37 nvmlDeviceGetClock;
            38 nvmlDeviceGetClockInfo;
            39 nvmlDeviceGetClockOffsets;
            40 nvmlDeviceGetComputeInstanceId;
            41 nvmlDeviceGetComputeMode;
            42 nvmlDeviceGetComputeRunningProcesses;
            43 nvmlDeviceGetComputeRunningProcesses_v2;
            44 nvmlDeviceGetComputeRunningProcesses_v3;
            45 nvmlDeviceGetConfComputeGpuAttestationReport;
            46 nvmlDeviceGetConfComputeGpuCertificate;
            47 nvmlDeviceGetConfComputeMemSizeInfo;
            48 nvmlDeviceGetConfComputeProtectedMemoryUsage;
            49 nvmlDeviceGetCoolerInfo;
            50 nvmlDeviceGetCount;
            51 nvmlDeviceGetCount_v2;
            52 nvmlDeviceGetCpuAffinity;
            53 nvmlDeviceGetCpuAffinityWithinScope;
            54 nvmlDeviceGetCreatableVgpus;
            55 nvmlDeviceGetCudaComputeCapability;
            56 nvmlDeviceGetCurrPcieLinkGeneration;
            57 nvmlDeviceGetCurrPcieLinkWidth;
            58 nvmlDeviceGetCurrentClockFreqs;
            59 nvmlDeviceGetCurrentClocksEventReasons;
            60 nvmlDeviceGetCurrentClocksThrottleReasons;
            61 nvmlDeviceGetDecoderUtilization;
            62 nvmlDeviceGetDefaultApplicationsClock;
            63 nvmlDeviceGetDefaultEccMode;
            64 nvmlDeviceGetDetailedEccErrors;
            65 nvmlDeviceGetDeviceHandleFromMigDeviceHandle;
            66 nvmlDeviceGetDisplayActive;
            67 nvmlDeviceGetDisplayMode;
            68 nvmlDeviceGetDramEncryptionMode;
            69 nvmlDeviceGetDriverModel;
            70 nvmlDeviceGetDriverModel_v2;
            71 nvmlDeviceGetDynamicPstatesInfo;
            72 nvmlDeviceGetEccMode;
            73 nvmlDeviceGetEncoderCapacity;
            74 nvmlDeviceGetEncoderSessions;
            75 nvmlDeviceGetEncoderStats;
            76 nvmlDeviceGetEncoderUtilization;
            77 nvmlDeviceGetEnforcedPowerLimit;
            78 nvmlDeviceGetFBCSessions;
            79 nvmlDeviceGetFBCStats;
            80 nvmlDeviceGetFanControlPolicy_v2;
            81 nvmlDeviceGetFanSpeed;
            82 nvmlDeviceGetFanSpeedRPM;
            83 nvmlDeviceGetFanSpeed_v2;
            84 nvmlDeviceGetFieldValues;
            85 nvmlDeviceGetGpcClkMinMaxVfOffset;
            86 nvmlDeviceGetGpcClkVfOffset;
            87 nvmlDeviceGetGpuFabricInfo;
            88 nvmlDeviceGetGpuFabricInfoV;
            89 nvmlDeviceGetGpuFabricInfo_v4;
            90 nvmlDeviceGetGpuInstanceById;
            91 nvmlDeviceGetGpuInstanceId;
            92 nvmlDeviceGetGpuInstancePossiblePlacements;
            93 nvmlDeviceGetGpuInstancePossiblePlacements_v2;
            94 nvmlDeviceGetGpuInstanceProfileInfo;
            95 nvmlDeviceGetGpuInstanceProfileInfoByIdV;
            96 nvmlDeviceGetGpuInstanceProfileInfoV;
            97 nvmlDeviceGetGpuInstanceRemainingCapacity;
            98 nvmlDeviceGetGpuInstances;
            99 nvmlDeviceGetGpuMaxPcieLinkGeneration;
            100 nvmlDeviceGetGpuOperationMode;
            101 nvmlDeviceGetGraphicsRunningProcesses;
            102 nvmlDeviceGetGraphicsRunningProcesses_v2;
            103 nvmlDeviceGetGraphicsRunningProcesses_v3;
            104 nvmlDeviceGetGridLicensableFeatures;
            105 nvmlDeviceGetGridLicensableFeatures_v2;
            106 nvmlDeviceGetGridLicensableFeatures_v3;
            107 nvmlDeviceGetGridLicensableFeatures_v4;
            108 nvmlDeviceGetGspFirmwareMode;
            109 nvmlDeviceGetGspFirmwareVersion;
            110 nvmlDeviceGetHandleByIndex;
            111 nvmlDeviceGetHandleByIndex_v2;
            112 nvmlDeviceGetHandleByPciBusId;
            113 nvmlDeviceGetHandleByPciBusId_v2;
            114 nvmlDeviceGetHandleBySerial;
            115 nvmlDeviceGetHandleByUUID;
            116 nvmlDeviceGetHandleByUUIDV;
            117 nvmlDeviceGetHostVgpuMode;
            118 nvmlDeviceGetHostname_v1;
            119 nvmlDeviceGetIndex;
            120 nvmlDeviceGetInforomConfigurationChecksum;
            121 nvmlDeviceGetInforomImageVersion;
            122 nvmlDeviceGetInforomVersion;
            123 nvmlDeviceGetIrqNum;
            124 nvmlDeviceGetJpgUtilization;
            125 nvmlDeviceGetLastBBXFlushTime;
            126 nvmlDeviceGetMPSComputeRunningProcesses;
            127 nvmlDeviceGetMPSComputeRunningProcesses_v2;
            128 nvmlDeviceGetMPSComputeRunningProcesses_v3;
            129 nvmlDeviceGetMarginTemperature;
            130 nvmlDeviceGetMaxClockInfo;
            131 nvmlDeviceGetMaxCustomerBoostClock;
            132 nvmlDeviceGetMaxMigDeviceCount;
            133 nvmlDeviceGetMaxPcieLinkGeneration;
            134 nvmlDeviceGetMaxPcieLinkWidth;
            135 nvmlDeviceGetMemClkMinMaxVfOffset;
            136 nvmlDeviceGetMemClkVfOffset;
            137 nvmlDeviceGetMemoryAffinity;
            138 nvmlDeviceGetMemoryBusWidth;
            139 nvmlDeviceGetMemoryErrorCounter;
            140 nvmlDeviceGetMemoryInfo;
            141 nvmlDeviceGetMemoryInfo_v2;
            142 nvmlDeviceGetMemoryLimits_v1;
            143 nvmlDeviceGetMigDeviceHandleByIndex;
            144 nvmlDeviceGetMigMode;
            145 nvmlDeviceGetMinMaxClockOfPState;
            146 nvmlDeviceGetMinMaxFanSpeed;
            147 nvmlDeviceGetMinorNumber;
            148 nvmlDeviceGetModuleId;
            149 nvmlDeviceGetMultiGpuBoard;
            150 nvmlDeviceGetName;
            151 nvmlDeviceGetNumFans;
            152 nvmlDeviceGetNumGpuCores;
            153 nvmlDeviceGetNumaNodeId;
            154 nvmlDeviceGetNvLinkCapability;
            155 nvmlDeviceGetNvLinkErrorCounter;
            156 nvmlDeviceGetNvLinkInfo;
            157 nvmlDeviceGetNvLinkRemoteDeviceType;
            158 nvmlDeviceGetNvLinkRemotePciInfo;
            159 nvmlDeviceGetNvLinkRemotePciInfo_v2;
            160 nvmlDeviceGetNvLinkState;
            161 nvmlDeviceGetNvLinkTelemetrySamples_v1;
            162 nvmlDeviceGetNvLinkUtilizationControl;
            163 nvmlDeviceGetNvLinkUtilizationCounter;
            164 nvmlDeviceGetNvLinkVersion;
            165 nvmlDeviceGetNvlinkBwMode;
            166 nvmlDeviceGetNvlinkSupportedBwModes;
            167 nvmlDeviceGetOfaUtilization;
            168 nvmlDeviceGetP2PStatus;
            169 nvmlDeviceGetPciInfo;
            170 nvmlDeviceGetPciInfoExt;
            171 nvmlDeviceGetPciInfo_v2;
            172 nvmlDeviceGetPciInfo_v3;
            173 nvmlDeviceGetPcieLinkMaxSpeed;
            174 nvmlDeviceGetPcieReplayCounter;
            175 nvmlDeviceGetPcieSpeed;
            176 nvmlDeviceGetPcieThroughput;
            177 nvmlDeviceGetPdi;
            178 nvmlDeviceGetPerformanceModes;
            179 nvmlDeviceGetPerformanceState;
            180 nvmlDeviceGetPersistenceMode;
            181 nvmlDeviceGetPgpuMetadataString;
            182 nvmlDeviceGetPlatformInfo;
            183 nvmlDeviceGetPowerManagementDefaultLimit;
            184 nvmlDeviceGetPowerManagementLimit;
            185 nvmlDeviceGetPowerManagementLimitConstraints;
            186 nvmlDeviceGetPowerManagementMode;
            187 nvmlDeviceGetPowerMizerMode_v1;
            188 nvmlDeviceGetPowerSource;
            189 nvmlDeviceGetPowerState;
            190 nvmlDeviceGetPowerUsage;
            191 nvmlDeviceGetProcessUtilization;
            192 nvmlDeviceGetProcessesUtilizationInfo;
            193 nvmlDeviceGetRemappedRows;
            194 nvmlDeviceGetRemappedRows_v2;
            195 nvmlDeviceGetRepairStatus;
            196 nvmlDeviceGetRetiredPages;
            197 nvmlDeviceGetRetiredPagesPendingStatus;
            198 nvmlDeviceGetRetiredPages_v2;
            199 nvmlDeviceGetRowRemapperHistogram;
            200 nvmlDeviceGetRunningProcessDetailList;
            201 nvmlDeviceGetSamples;
            202 nvmlDeviceGetSerial;
            203 nvmlDeviceGetSramEccErrorStatus;
            204 nvmlDeviceGetSramUniqueUncorrectedEccErrorCounts;
            205 nvmlDeviceGetSupportedClocksEventReasons;
            206 nvmlDeviceGetSupportedClocksThrottleReasons;
            207 nvmlDeviceGetSupportedEventTypes;
            208 nvmlDeviceGetSupportedGraphicsClocks;
            209 nvmlDeviceGetSupportedMemoryClocks;
            210 nvmlDeviceGetSupportedPerformanceStates;
            211 nvmlDeviceGetSupportedVgpus;
            212 nvmlDeviceGetTargetFanSpeed;
            213 nvmlDeviceGetTemperature;
            214 nvmlDeviceGetTemperatureThreshold;
            215 nvmlDeviceGetTemperatureV;
            216 nvmlDeviceGetThermalSettings;
            217 nvmlDeviceGetTopologyCommonAncestor;
            218 nvmlDeviceGetTopologyNearestGpus;
            219 nvmlDeviceGetTotalEccErrors;
            220 nvmlDeviceGetTotalEnergyConsumption;
            221 nvmlDeviceGetUUID;
            222 nvmlDeviceGetUnrepairableMemoryFlag_v1;
            223 nvmlDeviceGetUtilizationRates;
            224 nvmlDeviceGetVbiosVersion;
            225 nvmlDeviceGetVgpuCapabilities;
            226 nvmlDeviceGetVgpuHeterogeneousMode;
            227 nvmlDeviceGetVgpuInstancesUtilizationInfo;
            228 nvmlDeviceGetVgpuMetadata;
            229 nvmlDeviceGetVgpuProcessUtilization;
            230 nvmlDeviceGetVgpuProcessesUtilizationInfo;
            231 nvmlDeviceGetVgpuSchedulerCapabilities;
            232 nvmlDeviceGetVgpuSchedulerLog;
            233 nvmlDeviceGetVgpuSchedulerLog_v2;
            234 nvmlDeviceGetVgpuSchedulerState;
            235 nvmlDeviceGetVgpuSchedulerState_v2;
            236 nvmlDeviceGetVgpuTypeCreatablePlacements;
            237 nvmlDeviceGetVgpuTypeSupportedPlacements;
            238 nvmlDeviceGetVgpuUtilization;
            239 nvmlDeviceGetViolationStatus;
            240 nvmlDeviceGetVirtualizationMode;
            241 nvmlDeviceIsMigDeviceHandle;
            242 nvmlDeviceModifyDrainState;
            243 nvmlDeviceOnSameBoard;
            244 nvmlDevicePerfMetricsGetSamples_v1;
            245 nvmlDevicePowerSmoothingActivatePresetProfile;
            246 nvmlDevicePowerSmoothingSetState;
            247 nvmlDevicePowerSmoothingUpdatePresetProfileParam;
            248 nvmlDeviceQueryDrainState;
            249 nvmlDeviceReadPRMCounters_v1;
            250 nvmlDeviceReadWritePRM_v1;
            251 nvmlDeviceRegisterEvents;
            252 nvmlDeviceRemoveGpu;
            253 nvmlDeviceRemoveGpu_v2;
            254 nvmlDeviceResetApplicationsClocks;
            255 nvmlDeviceResetGpuLockedClocks;
            256 nvmlDeviceResetMemoryLockedClocks;
            257 nvmlDeviceResetNvLinkErrorCounters;
            258 nvmlDeviceResetNvLinkUtilizationCounter;
            259 nvmlDeviceSetAPIRestriction;
            260 nvmlDeviceSetAccountingMode;
            261 nvmlDeviceSetAdaptiveTgpMode_v1;
            262 nvmlDeviceSetApplicationsClocks;
            263 nvmlDeviceSetAutoBoostedClocksEnabled;
            264 nvmlDeviceSetClockOffsets;
            265 nvmlDeviceSetComputeMode;
            266 nvmlDeviceSetConfComputeUnprotectedMemSize;
            267 nvmlDeviceSetCpuAffinity;
            268 nvmlDeviceSetDefaultAutoBoostedClocksEnabled;
            269 nvmlDeviceSetDefaultFanSpeed_v2;
            270 nvmlDeviceSetDramEncryptionMode;
            271 nvmlDeviceSetDriverModel;
            272 nvmlDeviceSetEccMode;
            273 nvmlDeviceSetFanControlPolicy;
            274 nvmlDeviceSetFanSpeed_v2;
            275 nvmlDeviceSetGpcClkVfOffset;
            276 nvmlDeviceSetGpuLockedClocks;
            277 nvmlDeviceSetGpuOperationMode;
            278 nvmlDeviceSetHostname_v1;
            279 nvmlDeviceSetMemClkVfOffset;
            280 nvmlDeviceSetMemoryLimits_v1;
            281 nvmlDeviceSetMemoryLockedClocks;
            282 nvmlDeviceSetMigMode;
            283 nvmlDeviceSetNvLinkDeviceLowPowerThreshold;
            284 nvmlDeviceSetNvLinkUtilizationControl;
            285 nvmlDeviceSetNvlinkBwMode;
            286 nvmlDeviceSetNvlinkBwModeAsync_v1;
            287 nvmlDeviceSetPersistenceMode;
            288 nvmlDeviceSetPowerManagementLimit;
            289 nvmlDeviceSetPowerManagementLimit_v2;
            290 nvmlDeviceSetPowerMizerMode_v1;
            291 nvmlDeviceSetRusdSettings_v1;
            292 nvmlDeviceSetTemperatureThreshold;
            293 nvmlDeviceSetVgpuCapabilities;
            294 nvmlDeviceSetVgpuHeterogeneousMode;
            295 nvmlDeviceSetVgpuSchedulerState;
            296 nvmlDeviceSetVgpuSchedulerState_v2;
            297 nvmlDeviceSetVirtualizationMode;
            298 nvmlDeviceValidateInforom;
            299 nvmlDeviceVgpuForceGspUnload;
            300 nvmlDeviceWorkloadPowerProfileClearRequestedProfiles;
            301 nvmlDeviceWorkloadPowerProfileGetCurrentProfiles;
            302 nvmlDeviceWorkloadPowerProfileGetProfilesInfo;
            303 nvmlDeviceWorkloadPowerProfileSetRequestedProfiles;
            304 nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1;
            305 nvmlEventSetCreate;
            306 nvmlEventSetFree;
            307 nvmlEventSetGetContextCount_v1;
            308 nvmlEventSetGetContextData_v1;
            309 nvmlEventSetGetContextInfo_v1;
            310 nvmlEventSetGetGpuOperationalEventContextLegacyXid_v1;
            311 nvmlEventSetRegisterGpuOperationalEvents_v1;
            312 nvmlEventSetWait;
            313 nvmlEventSetWait_v2;
            314 nvmlEventSetWait_v3;
            315 nvmlGetExcludedDeviceCount;
            316 nvmlGetExcludedDeviceInfoByIndex;
            317 nvmlGetVgpuCompatibility;
            318 nvmlGetVgpuDriverCapabilities;
            319 nvmlGetVgpuVersion;
            320 nvmlGpmMetricsGet;
            321 nvmlGpmMigSampleGet;
            322 nvmlGpmQueryDeviceSupport;
            323 nvmlGpmQueryIfStreamingEnabled;
            324 nvmlGpmSampleAlloc;
            325 nvmlGpmSampleFree;
            326 nvmlGpmSampleGet;
            327 nvmlGpmSetStreamingEnabled;
            328 nvmlGpuInstanceCreateComputeInstance;
            329 nvmlGpuInstanceCreateComputeInstanceWithPlacement;
            330 nvmlGpuInstanceDestroy;
            331 nvmlGpuInstanceGetActiveVgpus;
            332 nvmlGpuInstanceGetComputeInstanceById;
            333 nvmlGpuInstanceGetComputeInstancePossiblePlacements;
            334 nvmlGpuInstanceGetComputeInstanceProfileInfo;
            335 nvmlGpuInstanceGetComputeInstanceProfileInfoV;
            336 nvmlGpuInstanceGetComputeInstanceRemainingCapacity;
            337 nvmlGpuInstanceGetComputeInstances;
            338 nvmlGpuInstanceGetCreatableVgpus;
            339 nvmlGpuInstanceGetInfo;
            340 nvmlGpuInstanceGetVgpuHeterogeneousMode;
            341 nvmlGpuInstanceGetVgpuSchedulerLog;
            342 nvmlGpuInstanceGetVgpuSchedulerLog_v2;
            343 nvmlGpuInstanceGetVgpuSchedulerState;
            344 nvmlGpuInstanceGetVgpuSchedulerState_v2;
            345 nvmlGpuInstanceGetVgpuTypeCreatablePlacements;
            346 nvmlGpuInstanceSetVgpuHeterogeneousMode;
            347 nvmlGpuInstanceSetVgpuSchedulerState;
            348 nvmlGpuInstanceSetVgpuSchedulerState_v2;
            349 nvmlSetVgpuVersion;
            350 nvmlSystemEventSetCreate;
            351 nvmlSystemEventSetFree;
            352 nvmlSystemEventSetWait;
            353 nvmlSystemGetCPER_v1;
            354 nvmlSystemGetConfComputeCapabilities;
            355 nvmlSystemGetConfComputeGpusReadyState;
            356 nvmlSystemGetConfComputeKeyRotationThresholdInfo;
            357 nvmlSystemGetConfComputeSettings;
            358 nvmlSystemGetConfComputeState;
            359 nvmlSystemGetCudaDriverVersion;
            360 nvmlSystemGetCudaDriverVersion_v2;
            361 nvmlSystemGetDriverBranch;
            362 nvmlSystemGetDriverVersion;
            363 nvmlSystemGetHicVersion;
            364 nvmlSystemGetNVMLVersion;
            365 nvmlSystemGetNvlinkBwMode;
            366 nvmlSystemGetProcessName;
            367 nvmlSystemGetTopologyGpuSet;
            368 nvmlSystemRegisterEvents;
            369 nvmlSystemSetConfComputeGpusReadyState;
            370 nvmlSystemSetConfComputeKeyRotationThresholdInfo;
            371 nvmlSystemSetNvlinkBwMode;
            372 nvmlUnitGetCount;
            373 nvmlUnitGetDevices;
            374 nvmlUnitGetFanSpeedInfo;
            375 nvmlUnitGetHandleByIndex;
            376 nvmlUnitGetLedState;
            377 nvmlUnitGetPsuInfo;
            378 nvmlUnitGetTemperature;
            379 nvmlUnitGetUnitInfo;
            380 nvmlUnitSetLedState;
            381 nvmlVgpuInstanceClearAccountingPids;
            382 nvmlVgpuInstanceGetAccountingMode;
            383 nvmlVgpuInstanceGetAccountingPids;
            384 nvmlVgpuInstanceGetAccountingStats;
            385 nvmlVgpuInstanceGetEccMode;
            386 nvmlVgpuInstanceGetEncoderCapacity;
            387 nvmlVgpuInstanceGetEncoderSessions;
            388 nvmlVgpuInstanceGetEncoderStats;
            389 nvmlVgpuInstanceGetFBCSessions;
            390 nvmlVgpuInstanceGetFBCStats;
            391 nvmlVgpuInstanceGetFbUsage;
            392 nvmlVgpuInstanceGetFrameRateLimit;
            393 nvmlVgpuInstanceGetGpuInstanceId;
            394 nvmlVgpuInstanceGetGpuPciId;
            395 nvmlVgpuInstanceGetLicenseInfo;
            396 nvmlVgpuInstanceGetLicenseInfo_v2;
            397 nvmlVgpuInstanceGetLicenseStatus;
            398 nvmlVgpuInstanceGetMdevUUID;
            399 nvmlVgpuInstanceGetMetadata;
            400 nvmlVgpuInstanceGetPlacementId;
            401 nvmlVgpuInstanceGetRuntimeStateSize;
            402 nvmlVgpuInstanceGetType;
            403 nvmlVgpuInstanceGetUUID;
            404 nvmlVgpuInstanceGetVmDriverVersion;
            405 nvmlVgpuInstanceGetVmID;
            406 nvmlVgpuInstanceSetEncoderCapacity;
            407 nvmlVgpuTypeGetBAR1Info;
            408 nvmlVgpuTypeGetCapabilities;
            409 nvmlVgpuTypeGetClass;
            410 nvmlVgpuTypeGetDeviceID;
            411 nvmlVgpuTypeGetFbReservation;
            412 nvmlVgpuTypeGetFrameRateLimit;
            413 nvmlVgpuTypeGetFramebufferSize;
            414 nvmlVgpuTypeGetGpuInstanceProfileId;
            415 nvmlVgpuTypeGetGspHeapSize;
            416 nvmlVgpuTypeGetLicense;
            417 nvmlVgpuTypeGetMaxInstances;
            418 nvmlVgpuTypeGetMaxInstancesPerGpuInstance;
            419 nvmlVgpuTypeGetMaxInstancesPerVm;
            420 nvmlVgpuTypeGetName;
            421 nvmlVgpuTypeGetNumDisplayHeads;
            422 nvmlVgpuTypeGetResolution;
        }
    };
}
pub(crate) use exported_functions;
